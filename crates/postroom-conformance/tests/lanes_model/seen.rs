//! The states that were seen. A state is stored once, and a table of indices finds it by its hash.

use std::hash::{BuildHasherDefault, Hash, Hasher};

const NOBODY: usize = usize::MAX;

#[derive(Debug)]
pub(crate) struct Seen<S> {
    pub(crate) states: Vec<S>,
    hashes: Vec<u64>,
    table: Vec<usize>,
}

impl<S: Copy + Eq + Hash> Seen<S> {
    pub(crate) fn new(first: S) -> Self {
        let mut seen = Self { states: Vec::new(), hashes: Vec::new(), table: vec![NOBODY; 1 << 10] };
        seen.index_of(first);
        seen
    }

    /// Returns the index of a state, which is its own if it is new.
    pub(crate) fn index_of(&mut self, state: S) -> usize {
        let hash = hash_of(&state);
        let mut slot = self.slot_of(hash);
        while self.table[slot] != NOBODY {
            let index = self.table[slot];
            if self.hashes[index] == hash && self.states[index] == state {
                return index;
            }
            slot = self.after(slot);
        }
        let index = self.states.len();
        self.table[slot] = index;
        self.states.push(state);
        self.hashes.push(hash);
        if 2 * self.states.len() > self.table.len() {
            self.grow();
        }
        index
    }

    fn grow(&mut self) {
        self.table = vec![NOBODY; 2 * self.table.len()];
        for (index, hash) in self.hashes.iter().enumerate() {
            let mut slot = self.slot_of(*hash);
            while self.table[slot] != NOBODY {
                slot = self.after(slot);
            }
            self.table[slot] = index;
        }
    }

    fn slot_of(&self, hash: u64) -> usize {
        let length = self.table.len() as u64;
        usize::try_from(hash % length).expect("a slot is in the table")
    }

    fn after(&self, slot: usize) -> usize {
        (slot + 1) % self.table.len()
    }
}

fn hash_of(state: &impl Hash) -> u64 {
    use std::hash::BuildHasher;
    BuildHasherDefault::<Mix>::default().hash_one(state)
}

/// A fast hash: nobody chooses states in order to make theirs collide.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        // The product leaves the low bits poor, and they choose the slot.
        self.0 ^ self.0 >> 32
    }
}
