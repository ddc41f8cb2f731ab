//! Misuse of RAST by safe code, none of which compiles: see `tests/`.
