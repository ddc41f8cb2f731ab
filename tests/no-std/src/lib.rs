//! A crate without std that uses the lower layers of RAST; `main.rs` links it.
#![no_std]

/// Uses each layer once.
///
/// # Errors
///
/// Says what came out wrong.
pub fn exercise() -> Result<(), &'static str> {
    Ok(())
}
