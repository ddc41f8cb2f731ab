//! What must not compile, and what the compiler says then.
//!
//! The texts are those of the pinned toolchain; another one words them
//! otherwise, so under another one this fails with a reason unless it is told
//! to pass the texts over by `RAST_UI_ANY_TOOLCHAIN=1`, which it prints.
#![cfg(not(rast_loom))]

/// The toolchain whose words are in the `.stderr` files.
const PINNED: &str = "1.95.";

#[test]
fn misuse_does_not_compile_and_is_named() {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = std::process::Command::new(compiler)
        .arg("--version")
        .output()
        .expect("the compiler tells its version");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_pinned = version
        .split(' ')
        .nth(1)
        .is_some_and(|number| number.starts_with(PINNED));
    if !is_pinned {
        eprintln!("the texts are those of Rust {PINNED}x; this is {version}");
        assert!(
            std::env::var_os("RAST_UI_ANY_TOOLCHAIN").is_some(),
            "set RAST_UI_ANY_TOOLCHAIN=1 to pass over the texts of another toolchain"
        );
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
