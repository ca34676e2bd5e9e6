//! The scenarios of the official suite, written against messages instead of HTTP, and some of our own.

pub mod lifecycle;
pub mod prompts;
pub mod questions;
pub mod resources;
pub mod rounds;
pub mod stateless;
pub mod subscriptions;
pub mod task_questions;
pub mod tasks;
pub mod tools;
