/** What of a JSON schema (draft 2020-12, as OpenAPI 3.1 has it) the API's description uses. */
interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  description?: string;
}

interface Operation {
  operationId: string;
  responses: Record<string, { content?: Record<string, { schema?: { allOf?: Schema[] } }> }>;
}

/** The parts of an OpenAPI document that the client's types are made of. */
export interface Described {
  components: { schemas: Record<string, Schema> };
  paths: Record<string, Record<string, Operation>>;
}

const HEADER = `// Made from openapi.json by \`npm run client:types\`: do not edit.\n`;

/**
 * The client's types: an interface for each named schema, and the problem codes of each operation.
 *
 * @throws Error for what it cannot say, so that nothing becomes `unknown` unnoticed
 */
export function clientTypes(document: Described): string {
  const interfaces = Object.entries(document.components.schemas).map(
    ([name, schema]) => `${comment(schema, '')}export interface ${name} ${typeOf(schema, '')}\n`,
  );
  const codes = Object.values(document.paths)
    .flatMap((path) => Object.values(path))
    .map((operation) => ({ name: operation.operationId, codes: codesOf(operation) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, codes }) => `  ${name}:${codes.map((code) => `\n    | '${code}'`).join('') || ' never'};\n`);
  const problems = `/** The codes that an operation's problems can have. */\nexport interface ProblemCodes {\n${codes.join('')}}\n`;
  return [HEADER, ...interfaces, problems].join('\n');
}

function codesOf({ responses }: Operation): string[] {
  const schemas = Object.values(responses).flatMap(
    ({ content }) => content?.['application/problem+json']?.schema?.allOf ?? [],
  );
  return [...new Set(schemas.flatMap(({ properties }) => properties?.code?.enum ?? []))].map(String).sort();
}

function typeOf(schema: Schema, indent: string): string {
  if (schema.$ref) return schema.$ref.replace('#/components/schemas/', '');
  if (schema.enum)
    return schema.enum.map((value) => (typeof value === 'string' ? `'${value}'` : String(value))).join(' | ');
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type }, indent)).join(' | ');
  switch (schema.type) {
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type;
    case 'integer':
    case 'number':
      return 'number';
    case 'array': {
      const items = typeOf(schema.items ?? {}, indent);
      return / /.test(items) ? `(${items})[]` : `${items}[]`;
    }
    case 'object':
      return objectOf(schema, indent);
    default:
      throw new Error(`Not known how to say in TypeScript: ${JSON.stringify(schema)}`);
  }
}

function objectOf({ properties, required = [], additionalProperties }: Schema, indent: string): string {
  if (!properties) {
    const values = typeof additionalProperties === 'object' ? typeOf(additionalProperties, indent) : 'unknown';
    return `Record<string, ${values}>`;
  }
  const inner = `${indent}  `;
  const members = Object.entries(properties).map(([name, schema]) => {
    const optional = required.includes(name) ? '' : '?';
    return `${comment(schema, inner)}${inner}${name}${optional}: ${typeOf(schema, inner)};\n`;
  });
  return `{\n${members.join('')}${indent}}`;
}

function comment({ description }: Schema, indent: string): string {
  return description === undefined
    ? ''
    : `${indent}/** ${description.replaceAll('*/', '* /').replaceAll('\n', ' ')} */\n`;
}
