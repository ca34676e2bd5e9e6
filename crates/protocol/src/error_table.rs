//! The error table: every error kind and its name in each protocol.
//!
//! `docs/errors.md` is generated from [`TABLE`] and checked against it.

/// The kind of an error; the table defines everything else about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    InvalidInput,
    IdempotencyConflict,
    UnknownTool,
    ResourceNotFound,
    FileNotFound,
    InputTooLarge,
    OutputTooLarge,
    Timeout,
    Cancelled,
    ToolFailed,
    InvalidOutput,
    Unauthenticated,
    Forbidden,
    RateLimited,
    Busy,
    Unavailable,
    AuditUnavailable,
    Internal,
}

/// How a failure is shown to an MCP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpErrorMapping {
    /// A result with `isError: true`: the model can read it and try something else.
    ErrorResult,
    /// A JSON-RPC error with this code: the request itself was wrong.
    JsonRpc(i64),
}

/// One row: a kind and its name in every protocol.
#[derive(Debug)]
pub struct ErrorRow {
    pub kind: ErrorKind,
    /// Toolyard's own name, shown in `error[…]` when the toolpack format has no finer code.
    pub name: &'static str,
    /// The `error_type` of the result envelope.
    pub error_type: &'static str,
    /// The code of the toolpack format.
    pub code: &'static str,
    /// The category of HOOT01.
    pub category: &'static str,
    pub mcp: McpErrorMapping,
    pub http: u16,
    pub exit: u8,
    /// Whether the same call may succeed later without being changed.
    pub retryable: bool,
    pub meaning: &'static str,
}

use ErrorKind::*;
use McpErrorMapping::*;

macro_rules! rows {
    ($($kind:ident $name:literal: $ty:literal $code:literal $cat:literal $mcp:expr, $http:literal $exit:literal $retry:literal, $meaning:literal;)*) => {
        &[$(ErrorRow { kind: $kind, name: $name, error_type: $ty, code: $code, category: $cat, mcp: $mcp, http: $http,
                  exit: $exit, retryable: $retry, meaning: $meaning }),*]
    };
}

/// Columns: kind, name, envelope type, toolpack code, HOOT01 category, MCP, HTTP, exit, retryable, meaning.
pub const TABLE: &[ErrorRow] = rows! {
    InvalidInput "invalid_input": "ValidationError" "EINVAL" "validation" ErrorResult, 400 3 false,
        "The arguments do not match the tool's input schema; each violation is listed with its JSON pointer.";
    IdempotencyConflict "idempotency_conflict": "ValidationError" "EINVAL" "validation" ErrorResult, 422 3 false,
        "The idempotency key was used before, with other arguments.";
    UnknownTool "unknown_tool": "ResourceNotFound" "EINVAL" "not_found" JsonRpc(-32602), 404 4 false,
        "No tool with that name is loaded.";
    ResourceNotFound "resource_not_found": "ResourceNotFound" "EINVAL" "not_found" JsonRpc(-32602), 404 4 false,
        "The named resource, prompt, job or record does not exist.";
    FileNotFound "file_not_found": "FileNotFoundError" "EINTERNAL" "not_found" ErrorResult, 502 4 false,
        "A program or file that the tool needs is missing on this machine.";
    InputTooLarge "input_too_large": "ValidationError" "ECAP" "validation" ErrorResult, 413 6 false,
        "The arguments are larger than the tool's input limit.";
    OutputTooLarge "output_too_large": "ToolExecutionError" "ECAP" "service" ErrorResult, 502 6 false,
        "The tool wrote more than its output limit and was stopped.";
    Timeout "timeout": "TimeoutError" "ETIMEOUT" "timeout" ErrorResult, 504 5 true,
        "The tool did not finish in time; its whole process tree was killed.";
    Cancelled "cancelled": "ToolExecutionError" "EINTERNAL" "cancelled" ErrorResult, 499 130 true,
        "The caller disconnected or cancelled; the tool's whole process tree was killed.";
    ToolFailed "tool_failed": "ToolExecutionError" "EINTERNAL" "service" ErrorResult, 502 1 false,
        "The tool ran and failed: it reported an error, exited with a status other than 0 or was killed.";
    InvalidOutput "invalid_output": "ToolExecutionError" "EINTERNAL" "service" ErrorResult, 502 1 false,
        "The tool's result is invalid: missing, not JSON, more than one, or not matching its output schema.";
    Unauthenticated "unauthenticated": "AuthenticationError" "EINVAL" "permission" JsonRpc(-32600), 401 7 false,
        "The caller gave no credentials, or wrong ones.";
    Forbidden "forbidden": "PermissionError" "EINVAL" "permission" ErrorResult, 403 7 false,
        "The caller may not do this; the message names the rule.";
    RateLimited "rate_limited": "ApiLimitExceeded" "ECAP" "service" ErrorResult, 429 8 true,
        "Too many calls in a window; the details say when to retry.";
    Busy "busy": "ApiLimitExceeded" "ECAP" "service" ErrorResult, 503 8 true,
        "The concurrency limit is reached and the queue is full.";
    Unavailable "unavailable": "ToolExecutionError" "EINTERNAL" "service" ErrorResult, 503 9 true,
        "The tool's source is down for now, or the server is shutting down.";
    AuditUnavailable "audit_unavailable": "ToolExecutionError" "EINTERNAL" "internal" ErrorResult, 503 9 true,
        "The audit log cannot be written (often: disk full), so nothing may run.";
    Internal "internal": "ToolExecutionError" "EINTERNAL" "internal" JsonRpc(-32603), 500 10 false,
        "A fault in Toolyard itself; the log of `serve` and the audit log have it under the call's id.";
};

/// The exit code for a wrong command line.
pub const EXIT_USAGE: u8 = 2;
/// The exit code of a verification that found damage, such as a broken audit chain. Nothing went wrong with the
/// command itself, so it is not an error of the table.
pub const EXIT_DAMAGED: u8 = 11;

impl ErrorKind {
    pub fn row(self) -> &'static ErrorRow {
        // The table lists the kinds in the order of the enum (tested), so the discriminant is the index.
        &TABLE[self as usize]
    }

    /// The kind for a canonical code that a tool itself reported (toolpack format).
    pub fn from_tool_code(code: &str) -> ErrorKind {
        match code {
            "EINVAL" => InvalidInput,
            "ETIMEOUT" => Timeout,
            "ECAP" => OutputTooLarge,
            _ => ToolFailed,
        }
    }

    pub fn from_name(name: &str) -> Option<ErrorKind> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_at_its_own_place_in_the_table() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.kind as usize, i, "{} is out of order", row.name);
            assert_eq!(ErrorKind::from_name(row.name), Some(row.kind));
        }
        assert_eq!(TABLE.len(), Internal as usize + 1);
    }

    #[test]
    fn rows_use_only_the_words_the_formats_define() {
        const TYPES: &[&str] = &[
            "ValidationError",
            "FileNotFoundError",
            "AuthenticationError",
            "ResourceNotFound",
            "ToolExecutionError",
            "ApiLimitExceeded",
            "TimeoutError",
            "PermissionError",
        ];
        const CODES: &[&str] = &["EINVAL", "ETIMEOUT", "ECAP", "EINTERNAL"];
        const CATEGORIES: &[&str] =
            &["validation", "not_found", "service", "internal", "cancelled", "timeout", "permission"];
        for row in TABLE {
            assert!(TYPES.contains(&row.error_type), "{}", row.error_type);
            assert!(CODES.contains(&row.code), "{}", row.code);
            assert!(CATEGORIES.contains(&row.category), "{}", row.category);
            assert!(![0, EXIT_USAGE, EXIT_DAMAGED].contains(&row.exit), "exit {} is taken", row.exit);
            assert!((400..600).contains(&row.http));
        }
    }
}
