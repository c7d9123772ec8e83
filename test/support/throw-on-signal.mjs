// Loaded into a program with --import: SIGUSR2 is a fault that nobody catches.
process.on('SIGUSR2', () => {
  throw new Error('a fault of the program');
});
