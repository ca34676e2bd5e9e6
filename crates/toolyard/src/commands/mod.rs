//! One file per command.

pub mod audit;
pub mod call;
pub mod check;
pub mod completions;
pub mod doctor;
pub mod init;
pub mod list;
pub mod serve;
pub mod show;
