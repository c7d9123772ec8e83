#!/usr/bin/env node
console.error('x');
