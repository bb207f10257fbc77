/** Thrown when the sandbox cannot start, for a reason that its operator can mend; the message says how. */
export class SandboxError extends Error {
  override readonly name = 'SandboxError';
}

/** The port is taken, by another sandbox or by a stranger. */
export class PortTakenError extends SandboxError {}
