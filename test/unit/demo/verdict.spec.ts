import { describe, expect, it } from '@jest/globals';
import { isColourful } from '../../../demo/paint.js';
import { judge } from '../../../demo/verdict.js';

const LEAVES = { orders: 1, events: 2, 'edits lost': 0 };

describe('what an accident did', () => {
  it.each([
    ['harmless', 'exactly what had to be there is there', {}],
    ['accident', 'there is something too many', { orders: 2 }],
    ['accident', 'there is something that must not be at all', { 'edits lost': 1 }],
    ['failed', 'there is nothing: nobody did anything', { orders: 0, events: 0 }],
    ['failed', 'something is missing beside what is too many', { orders: 2, events: 1 }],
    ['failed', 'something was not counted', { orders: 2, events: undefined }],
  ])('is %s when %s', (verdict, _, found) => {
    expect(judge(LEAVES, { ...LEAVES, ...found } as Record<string, number>)).toBe(verdict);
  });
});

describe('colours', () => {
  it.each([
    [true, 'on a terminal', { isTTY: true }, {}],
    [true, 'when NO_COLOR is empty', { isTTY: true }, { NO_COLOR: '' }],
    [false, 'in a pipe', {}, {}],
    [false, 'with NO_COLOR', { isTTY: true }, { NO_COLOR: '1' }],
    [false, 'on a terminal that cannot', { isTTY: true }, { TERM: 'dumb' }],
  ])('are %s %s', (expected, _, stream, environment) => {
    expect(isColourful(stream, environment)).toBe(expected);
  });
});
