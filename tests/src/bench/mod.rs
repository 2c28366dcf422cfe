//! The figures: what is measured, how, and what is wanted. `make bench` calls it.
//!
//! * [`figures`] is the list: ids, units, and the limits that are wanted.
//! * Each experiment measures one or several of them, on a [`stand`]: [`form`], [`replace`], [`large`], [`refill`], [`quorum_loss`],
//!   [`recover`], [`scale`], [`ten`], [`agent`], [`inspect`], [`sizes`], [`links`].
//! * [`report`] prints the table and keeps `target/bench/figures.json`.
//!
//! A time is what a client sees: from sending the request until the watch delivers the object with the wanted status.
//! Images are on the nodes already, and each experiment has a warm-up run that is not counted.

pub mod agent;
pub mod client;
pub mod experiment;
pub mod figures;
pub mod follow;
pub mod form;
pub mod inspect;
pub mod large;
pub mod links;
pub mod process;
pub mod quorum_loss;
pub mod recover;
pub mod refill;
pub mod replace;
pub mod report;
pub mod scale;
pub mod sizes;
pub mod stand;
pub mod ten;
pub mod timeline;
