//! The parser of `graph!` in rast-msgpass. Do not call it directly: the code that it writes names
//! hidden items of rast-msgpass of the same version.
//!
//! ```text
//!   tokens --read--> Declaration --check--> Declaration without faulty parts --emit--> tokens
//!              |                    |
//!              +------ Faults ------+-------------> compile_error! at the tokens of each mistake
//! ```
//!
//! A declaration with mistakes is repaired where the intention is clear, and loses its faulty
//! entries otherwise. The rest is still written, so code that uses the graph adds no errors of its
//! own about a missing type. The checks that need values, like `burst` past `cap`, are constants in
//! rast-msgpass.

mod check;
mod declaration;
mod emit;
mod fault;
mod quote;
mod read;
mod tokens;

use proc_macro::TokenStream;

/// Writes the graph that follows `(path of rast-msgpass)`.
#[proc_macro]
pub fn graph(input: TokenStream) -> TokenStream {
    let mut faults = fault::Faults::default();
    let graph = read::read(input, &mut faults).map(|mut declaration| {
        check::check(&mut declaration, &mut faults);
        emit::emit(&declaration, faults.is_empty())
    });
    faults.with(graph.unwrap_or_default())
}
