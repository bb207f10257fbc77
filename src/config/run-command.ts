import { loadEnvFile } from './load-env-file.js';
import { loadSettings, type Settings } from './settings.js';

/** Runs a command-line tool with the settings of the service. What it throws is told in one line and ends in status 1. */
export async function runCommand(command: (settings: Settings) => Promise<void>): Promise<void> {
  try {
    loadEnvFile();
    await command(loadSettings(process.env));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  }
}
