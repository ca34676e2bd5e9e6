//! `event.*`: events for clients that poll instead of subscribing.

pub mod poll;
