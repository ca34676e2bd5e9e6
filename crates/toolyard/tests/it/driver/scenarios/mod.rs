//! The scenarios of the official suite, written against messages instead of HTTP, and some of our own.

pub mod dns_rebinding;
pub mod input_required;
pub mod lifecycle;
pub mod prompts;
pub mod resources;
pub mod server_requests;
pub mod stateless;
pub mod subscriptions;
pub mod task_input;
pub mod tasks;
pub mod tools;
