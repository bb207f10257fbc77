import { type DynamicModule, Module } from '@nestjs/common';
import { OrdersModule } from '../orders/orders.module.js';
import { AskingAgain } from './asking-again.js';
import { LateEffects } from './late-effects.js';
import { PaymentLedger } from './payment-ledger.js';
import { PaymentsController } from './payments.controller.js';
import { PAYMENTS_OPTIONS, type PaymentsOptions } from './payments.options.js';
import { PaymentsService } from './payments.service.js';
import type { ProviderAccess } from './provider-access.js';
import { ProviderCourse } from './provider-course.js';
import { ProviderFacts } from './provider-facts.js';
import { BankProvider } from './providers/bank-provider.js';
import { MeasuredProvider } from './providers/measured-provider.js';
import { PaymentProviders } from './providers/payment-providers.js';
import { createStripe } from './providers/stripe-client.js';
import { StripeProvider } from './providers/stripe-provider.js';
import { StripeWebhooks } from './providers/stripe-webhook.js';
import { UnconfiguredProvider } from './providers/unconfigured-provider.js';
import { Reconciliation } from './reconciliation.js';
import { RefundLedger } from './refund-ledger.js';
import { RefundsController } from './refunds.controller.js';
import { RefundsService } from './refunds.service.js';
import { Replies } from './replies.js';
import { Reviews } from './reviews.js';
import { SurplusCharges } from './surplus-charges.js';
import { WebhooksController } from './webhooks.controller.js';

@Module({})
export class PaymentsModule {
  static forRoot(options: PaymentsOptions, { timeout, stripe: access, bankApiBase }: ProviderAccess): DynamicModule {
    const { secretKey, apiBase, webhookSecret } = access;
    const stripe = createStripe({ secretKey, timeout, ...(apiBase !== undefined && { apiBase }) });
    const card = new StripeProvider(stripe);
    const bank =
      bankApiBase === undefined
        ? new UnconfiguredProvider('bank', 'BANK_API_BASE')
        : new BankProvider({ apiBase: bankApiBase, timeout });
    return {
      module: PaymentsModule,
      imports: [OrdersModule],
      controllers: [PaymentsController, RefundsController, WebhooksController],
      providers: [
        { provide: PAYMENTS_OPTIONS, useValue: options },
        {
          provide: PaymentProviders,
          useValue: new PaymentProviders(new MeasuredProvider(card), new MeasuredProvider(bank), timeout),
        },
        { provide: StripeWebhooks, useValue: new StripeWebhooks(stripe, webhookSecret) },
        PaymentLedger,
        RefundLedger,
        SurplusCharges,
        ProviderFacts,
        ProviderCourse,
        Replies,
        PaymentsService,
        RefundsService,
        LateEffects,
        AskingAgain,
        Reconciliation,
        Reviews,
      ],
      exports: [Reconciliation, Reviews],
    };
  }
}
