/** What may follow the server's address: whom mails are from, and whether they may travel in the clear. */
const OPTIONS = ['from', 'requireTLS'];

/** One address that needs no quoting: it goes into a header and into a command. */
export const PLAIN_ADDRESS = /^[^\s@<>,;:"()[\]\\]+@[^\s@<>,;:"()[\]\\]+$/;

export const SMTP_URL_RULE = `must be smtp:// or smtps://, a host, and after it at most ?${OPTIONS.join('= and ')}=true`;

/** Whether mails can be handed over there: what is not understood is refused, rather than left out without a word. */
export function isSmtpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password, pathname, hash, searchParams } = new URL(text);
  const from = searchParams.get('from');
  return (
    ['smtp:', 'smtps:'].includes(protocol) &&
    hostname !== '' &&
    ['', '/'].includes(pathname) &&
    hash === '' &&
    [username, password].every(isDecodable) &&
    [...searchParams.keys()].every((name) => OPTIONS.includes(name)) &&
    (from === null || PLAIN_ADDRESS.test(from)) &&
    ['true', 'false', null].includes(searchParams.get('requireTLS'))
  );
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
