import { ConsoleLogger, type LoggerService, type LogLevel } from '@nestjs/common';
import { pino, type Logger as Pino } from 'pino';
import type { Settings } from '../config/settings.js';

type Level = Settings['logLevel'];

/** Nest tells of every module and route that it sets up: of use when that fails, else noise. */
const SET_UP = new Set(['NestFactory', 'InstanceLoader', 'RoutesResolver', 'RouterExplorer', 'NestApplication']);

/** One JSON object per line for machines, plain lines for a terminal. */
export function createLogger(level: Level): LoggerService {
  return process.stdout.isTTY ? new TerminalLogger(level) : new JsonLogger(level);
}

/** What code may hand to Nest's logger: a message or fields, then whatever else, and last the context. */
type Rest = readonly unknown[];

class JsonLogger implements LoggerService {
  private readonly pino: Pino;

  constructor(level: Level) {
    const options = { level, base: { pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime };
    this.pino = pino({ ...options, formatters: { level: (label) => ({ level: label }) } });
  }

  log(message: unknown, ...rest: Rest): void {
    this.write(SET_UP.has(rest.at(-1) as string) ? 'debug' : 'info', message, rest);
  }

  error(message: unknown, ...rest: Rest): void {
    this.write('error', message, rest);
  }

  warn(message: unknown, ...rest: Rest): void {
    this.write('warn', message, rest);
  }

  debug(message: unknown, ...rest: Rest): void {
    this.write('debug', message, rest);
  }

  verbose(message: unknown, ...rest: Rest): void {
    this.write('trace', message, rest);
  }

  fatal(message: unknown, ...rest: Rest): void {
    this.write('fatal', message, rest);
  }

  private write(level: Level, message: unknown, rest: Rest): void {
    if (!this.pino.isLevelEnabled(level)) return;
    const context = rest.at(-1);
    const details = rest.slice(0, -1).filter((detail) => detail !== undefined);
    const fields = { context, ...(details.length > 0 && { details }) };
    if (message instanceof Error) this.pino[level]({ ...fields, err: message }, message.message);
    else if (typeof message === 'object') this.pino[level]({ ...fields, ...message });
    else this.pino[level](fields, String(message as string));
  }
}

const NEST_LEVELS: Record<Level, LogLevel[]> = {
  fatal: ['fatal'],
  error: ['fatal', 'error'],
  warn: ['fatal', 'error', 'warn'],
  info: ['fatal', 'error', 'warn', 'log'],
  debug: ['fatal', 'error', 'warn', 'log', 'debug'],
  trace: ['fatal', 'error', 'warn', 'log', 'debug', 'verbose'],
};

class TerminalLogger extends ConsoleLogger {
  constructor(level: Level) {
    super({ logLevels: NEST_LEVELS[level], compact: true, breakLength: Number.POSITIVE_INFINITY });
  }

  override log(message: unknown, ...rest: unknown[]): void {
    if (SET_UP.has(rest.at(-1) as string)) this.debug(message, ...rest);
    else super.log(message, ...rest);
  }
}
