/**
 * Runs in the service before it: stops the process just as it is about to write a transfer to the bank, after everything
 * that it looks at before that. What is stopped there lands as soon as the process is continued.
 */
export const STOPS_BEFORE_TRANSFER = `data:text/javascript,${encodeURIComponent(`
  import { ClientRequest } from 'node:http';
  const { end } = ClientRequest.prototype;
  ClientRequest.prototype.end = function (...body) {
    if (this.method === 'POST' && this.path === '/bank/transfers') process.kill(process.pid, 'SIGSTOP');
    return end.apply(this, body);
  };
`)}`;
