import { jest } from '@jest/globals';

// Long enough for a machine that does something else as well; no test relies on it.
jest.setTimeout(240_000);
