import { Tenants1764500000001 } from './1764500000001-tenants.js';
import { IdempotencyKeys1764500000002 } from './1764500000002-idempotency-keys.js';
import { Outbox1764500000003 } from './1764500000003-outbox.js';
import { Orders1764500000004 } from './1764500000004-orders.js';
import { LeasesAndInbox1764500000005 } from './1764500000005-leases-and-inbox.js';
import { Payments1764500000006 } from './1764500000006-payments.js';
import { Feeds1764500000007 } from './1764500000007-feeds.js';
import { Relay1764500000008 } from './1764500000008-relay.js';
import { Notifications1764500000009 } from './1764500000009-notifications.js';
import { Figures1764500000010 } from './1764500000010-figures.js';

/** Every migration, oldest first. A released one is never changed: add another. */
export const MIGRATIONS = [
  Tenants1764500000001,
  IdempotencyKeys1764500000002,
  Outbox1764500000003,
  Orders1764500000004,
  LeasesAndInbox1764500000005,
  Payments1764500000006,
  Feeds1764500000007,
  Relay1764500000008,
  Notifications1764500000009,
  Figures1764500000010,
];
