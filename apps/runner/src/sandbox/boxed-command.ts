/** A program and its arguments, ready to spawn. */
export interface BoxedCommand {
  program: string;
  args: string[];
}
