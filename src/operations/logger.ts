import { ConsoleLogger, type LogLevel } from '@nestjs/common';
import type { Settings } from '../config/settings.js';

const LEVELS: Record<Settings['logLevel'], LogLevel[]> = {
  fatal: ['fatal'],
  error: ['fatal', 'error'],
  warn: ['fatal', 'error', 'warn'],
  info: ['fatal', 'error', 'warn', 'log'],
  debug: ['fatal', 'error', 'warn', 'log', 'debug'],
  trace: ['fatal', 'error', 'warn', 'log', 'debug', 'verbose'],
};

/** One JSON object per line for machines, plain lines for a terminal. */
export function createLogger(level: Settings['logLevel']): ConsoleLogger {
  return new ConsoleLogger({ logLevels: LEVELS[level], json: !process.stdout.isTTY, colors: process.stdout.isTTY });
}
