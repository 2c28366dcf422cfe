//! Every order in which things can happen to a small cluster, and many in which they can happen to a large one.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod exhaustive;
mod mutants;
mod random;
mod regressions;
mod scripts;
