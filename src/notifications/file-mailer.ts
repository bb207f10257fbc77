import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createTransport } from 'nodemailer';
import { type Mail, MailDelayedError, Mailer } from './mailer.js';
import { mimeOf } from './mime.js';

const FROM = 'receipts@localhost';

/**
 * Writes each mail into a file that any mail program opens, `<notification id>.eml`, instead of sending it. A repeat
 * replaces the file by the same one; a reader never sees half of one.
 */
export class FileMailer extends Mailer {
  private readonly composer = createTransport({ streamTransport: true, buffer: true });

  constructor(private readonly directory: string) {
    super();
  }

  async send(mail: Mail): Promise<void> {
    const draft = join(this.directory, `.${randomUUID()}.tmp`);
    try {
      const { message } = await this.composer.sendMail(mimeOf(mail, FROM));
      // Addresses are in there: for nobody but the service's own user.
      await mkdir(this.directory, { recursive: true, mode: 0o700 });
      await writeFile(draft, message as Buffer, { mode: 0o600, flag: 'wx' });
      await rename(draft, join(this.directory, `${mail.id}.eml`));
    } catch (error) {
      await rm(draft, { force: true }).catch(() => undefined);
      const { code = 'unknown', message } = error as NodeJS.ErrnoException;
      throw new MailDelayedError(message, code);
    }
  }
}
