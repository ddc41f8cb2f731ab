//! The parser of `graph!` in rast-msgpass. Do not call it directly: the code that it writes names
//! hidden items of rast-msgpass of the same version.
//!
//! ```text
//!   tokens --read--> Declaration --check--> Declaration without faulty parts --emit--> tokens
//!              |                    |
//!              +------ Faults ------+-------------> compile_error! at the tokens of each mistake
//! ```
//!
//! The parser repairs a mistake in a declaration if the intention is clear, and otherwise drops the
//! faulty entry. It still writes the rest, so code that uses the graph causes no further errors
//! about missing types. Checks that need values, such as that of `burst` against `cap`, are
//! constants in rast-msgpass, which the compiler evaluates.

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
