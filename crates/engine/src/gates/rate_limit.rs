//! Gate: the tool's rate limit, counted in the store and so shared by all processes of a yard.

use crate::execute::{Engine, Execution};
use crate::registry::Entry;
use toolyard_protocol::{Error, ErrorKind, Rate};

/// Takes one token of the tool's bucket. A recovered job took its token when it was submitted.
pub async fn take(engine: &Engine, entry: &Entry, execution: &Execution<'_>) -> Result<(), Error> {
    let Some(rate @ Rate { calls, per }) = entry.spec.behavior.rate else { return Ok(()) };
    if execution.is_recovered() {
        return Ok(());
    }
    let key = format!("tool:{}", entry.spec.name);
    let Some(wait) = engine.rate_limits.get()?.take(key, rate, engine.clock.now()).await? else {
        return Ok(());
    };
    let message = format!("the tool's rate limit of {calls} calls per {} ms is exceeded", per.as_millis());
    Err(Error::new(ErrorKind::RateLimited, message)
        .hint(format!("try again in {} ms", wait.as_millis()))
        .with(|details| details.retry_after = Some(wait)))
}
