// Loaded into a program with --import. Makes SIGUSR2 throw an error that nothing catches.
process.on('SIGUSR2', () => {
  throw new Error('a fault of the program');
});
