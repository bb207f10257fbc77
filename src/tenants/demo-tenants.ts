/** The tenants of `SEED_DEMO_TENANTS`. */
export const DEMO_TENANTS = [
  {
    name: 'acme',
    tenantId: '01900000-0000-7000-8000-00000000acfe',
    keyId: '01900000-0000-7000-8000-0000000000a1',
    key: 'sk_demo_acme',
  },
  {
    name: 'globex',
    tenantId: '01900000-0000-7000-8000-000000910bec',
    keyId: '01900000-0000-7000-8000-0000000000b1',
    key: 'sk_demo_globex',
  },
] as const;
