// Loaded into a program with --import: SIGUSR2 throws an error that nothing catches.
process.on('SIGUSR2', () => {
  throw new Error('a fault of the program');
});
