//! Programs that must not compile, each for the reason in its `.stderr` file.
//!
//! The messages are those of the pinned toolchain; after a change of it, run the test with
//! `TRYBUILD=overwrite` and read the difference.
#![cfg(not(rast_loom))]

#[test]
fn misuse_is_refused() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
