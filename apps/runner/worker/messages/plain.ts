/** The fields of a contract message. */
export type Plain<Message> = Omit<Message, '$typeName' | '$unknown'>;

/** The names of a contract enum. */
export type EnumName<Enum> = Exclude<keyof Enum & string, 'UNSPECIFIED'>;
