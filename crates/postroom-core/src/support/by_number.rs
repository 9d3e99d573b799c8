//! Maps by the number of a message. A database gives numbers one after the other, so they need little mixing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type ByNumber<V> = HashMap<i64, V, BuildHasherDefault<NumberHasher>>;

/// An odd factor: different numbers stay different, and the upper bits depend on all of them.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(FACTOR));
    }

    fn write_i64(&mut self, number: i64) {
        self.0 = (self.0 ^ number.cast_unsigned()).wrapping_mul(FACTOR);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_wherever_they_begin_and_however_far_apart_they_are() {
        for step in [1, 2, 64, 1 << 24, 1 << 40] {
            let first = i64::MIN / 2;
            let map: ByNumber<i64> = (0..10_000).map(|n| (first + n * step, n)).collect();
            assert!((0..10_000).all(|n| map.get(&(first + n * step)) == Some(&n)), "step {step}");
        }
    }
}
