#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| postroom_fuzzing::neighbours(bytes));
