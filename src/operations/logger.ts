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

/** Nest tells of every module and route that it sets up: of use when that fails, else noise. */
const SET_UP = new Set(['NestFactory', 'InstanceLoader', 'RoutesResolver', 'RouterExplorer', 'NestApplication']);

class QuietLogger extends ConsoleLogger {
  override log(message: unknown, ...rest: unknown[]): void {
    if (SET_UP.has(rest.at(-1) as string)) this.debug(message, ...rest);
    else super.log(message, ...rest);
  }
}

/** One JSON object per line for machines, plain lines for a terminal. */
export function createLogger(level: Settings['logLevel']): ConsoleLogger {
  return new QuietLogger({ logLevels: LEVELS[level], json: !process.stdout.isTTY, colors: process.stdout.isTTY });
}
