//! One file per command.

pub mod adopt;
pub mod audit;
pub mod batch;
pub mod call;
pub mod check;
mod check_results;
pub mod completions;
pub mod doctor;
pub mod init;
pub mod job;
pub mod list;
pub mod new;
pub mod prepare;
pub mod prompt;
pub mod resource;
pub mod secret;
pub mod serve;
pub mod show;
pub mod state;
pub mod stdio;
pub mod test;
pub mod token;
