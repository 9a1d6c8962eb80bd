// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks dashboard.json against Grafana's own types: a test puts the dashboard behind this, as a
// literal, for the compiler to look for what is missing, misspelt or unknown.
import type { Dashboard } from './node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen';

// Enumerations of strings as the strings that they are in JSON.
type Plain<T> = T extends string ? `${T}` : T extends Array<infer E> ? Array<Plain<E>>
  : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
