/** A program and its arguments, as they are to be spawned. */
export interface BoxedCommand {
  program: string;
  args: string[];
}
