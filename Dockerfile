# The service without its development tools and without the embedded Postgres: it needs DATABASE_URL.
#
#   docker build -t orders-service .
#   docker run --rm -e DATABASE_URL=postgres://... orders-service node dist/src/migrate.js
#   docker run --rm -e DATABASE_URL=postgres://... -p 3000:3000 orders-service
#
# docker-compose.yml does the same beside a Postgres.

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY nest-cli.json tsconfig.json tsconfig.build.json ./
COPY migrations ./migrations
COPY src ./src
RUN npm run build

# The optional packages are the binaries of the embedded Postgres, 60 MB that nothing loads where DATABASE_URL is set.
FROM node:24-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --omit=optional --no-audit --no-fund

FROM node:24-slim
LABEL org.opencontainers.image.title="idempotent-orders-service" \
      org.opencontainers.image.licenses="MIT"
# Production: DATABASE_URL is required, and the public demo keys are refused.
ENV NODE_ENV=production
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
# Its "type": "module" is what makes dist/ ES modules.
COPY package.json ./
# Everything belongs to root: the service can read its own code and not change it.
USER node
EXPOSE 3000
# Liveness and not readiness: a database that is away for a while is no reason to replace the process.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.PORT || 3000) + '/health/live').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# In exec form, so that SIGTERM reaches the service and no shell. Give it longer than SHUTDOWN_GRACE (8s) before SIGKILL.
CMD ["node", "--enable-source-maps", "dist/src/main.js"]
