import { Injectable, type PipeTransform } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import { NotFound } from '../http/problems.js';

const FEED_NAME = /^[a-z0-9-]{1,64}$/;

/** The name of a feed in a path. What can be no name names no feed: `not-found`. */
@Injectable()
export class FeedNameParam implements PipeTransform<string, string> {
  transform(value: string): string {
    if (!FEED_NAME.test(value)) throw new Problem(NotFound, 'There is no feed with this name.');
    return value;
  }
}
