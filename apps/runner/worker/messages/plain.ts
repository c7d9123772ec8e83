/** The fields of a message of the contract. */
export type Plain<Message> = Omit<Message, '$typeName' | '$unknown'>;

/** The names of an enum of the contract. */
export type EnumName<Enum> = Exclude<keyof Enum & string, 'UNSPECIFIED'>;
