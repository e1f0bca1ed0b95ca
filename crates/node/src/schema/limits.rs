//! The bounds of schemas and of checking payloads against them. Each has a test that fills it and sees the documented error.

/// Text of one JSON Schema; more is `invalid_argument`.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Nesting of a JSON Schema's text; deeper is `invalid_argument`.
pub const SCHEMA_DEPTH_MAX: usize = 32;
/// Schemas inside one JSON Schema; more is `invalid_argument`.
pub const SCHEMA_NODES_MAX: usize = 2_000;
/// `$ref`s in one JSON Schema; more is `invalid_argument`.
pub const SCHEMA_REFS_MAX: usize = 512;
/// Patterns in one JSON Schema; more is `invalid_argument`.
pub const SCHEMA_PATTERNS_MAX: usize = 64;
/// States that one pattern of a JSON Schema may have, about; more is `invalid_argument`.
pub const SCHEMA_PATTERN_STATES_MAX: u64 = 2_000;
/// Steps that a JSON Schema may take on one value, not counting what is inside of it; more is `invalid_argument`.
pub const SCHEMA_STEPS_MAX: u64 = 10_000;
/// Steps that checking one payload against a JSON Schema may take; more is `too_large`.
///
/// A step is what takes at most about 25 ns. Measured with an optimised build on one core of a busy machine, in ns: a
/// type 3, `minimum` 4, an entry of an `enum` 9, `properties` 40 a member, `required` 76 a name, `uniqueItems` 28 an item
/// (121 when pairs are compared), `unevaluatedProperties` 96 a member, `multipleOf` 130 to 210 (7,000 for numbers near
/// 1e300), a pattern 0.1 to 8 per byte and state. So the dearest payload that is let through takes about 100 ms; a usual
/// one of 1 MiB takes 10 to 30, most of it to read the JSON.
pub const SCHEMA_PAYLOAD_STEPS_MAX: u64 = 4_000_000;
/// Schemas that may be open inside one another while a payload is checked; more is `too_large`.
pub const SCHEMA_STACK_MAX: u64 = 512;
/// Errors listed for one payload that does not fit its schema; more are left out.
pub const SCHEMA_ERRORS_MAX: usize = 10;
/// Characters of one such error's message and path; longer ones are cut.
pub const SCHEMA_ERROR_CHARS_MAX: usize = 300;
/// Compiled schemas that a network keeps at hand; the one longest unused goes first.
pub const SCHEMAS_CACHED_MAX: usize = 256;
