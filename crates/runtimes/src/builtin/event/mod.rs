//! `event.*`: what happened, for those who cannot listen.

pub mod poll;
