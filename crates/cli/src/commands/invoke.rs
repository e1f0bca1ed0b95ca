//! `rialto invoke`: call a tool and print what it gives.

use crate::context::Context;
use crate::exit::CliError;
use clap::Args;
use serde_json::Value;
use serde_json::value::RawValue;
use std::time::Duration;

/// Arguments of `invoke`.
#[derive(Debug, Args)]
pub(crate) struct Invoke {
    /// The tool's name
    tool: String,
    /// Its input, a JSON object
    #[arg(default_value = "{}")]
    input: String,
    /// Seconds to wait for the result; exit 7 when none comes
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Wait also while the tool's owner is not there
    #[arg(long)]
    wait_for_owner: bool,
}

impl Invoke {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let input = serde_json::from_str::<Box<RawValue>>(&self.input).ok().filter(|raw| raw.get().starts_with('{'));
        let no_object = || CliError::usage("the input is not a JSON object").next("write it as '{\"key\": 1}'");
        let input = input.ok_or_else(no_object)?;
        let timeout = Some(Duration::from_secs(self.timeout));
        let mut voice = cx.member().await?;
        let called = voice
            .call(async |http| http.invoke(&self.tool, &input, timeout, self.wait_for_owner).await)
            .await
            .map_err(|e| e.if_missing("`rialto resource list --type tool` shows what there is"))?;
        let output = called.get("output").cloned().unwrap_or_default();
        if called.get("schema_warning").and_then(Value::as_bool) == Some(true) {
            cx.out.hint("the result does not fit the tool's own schema");
        }
        if called.get("is_error").and_then(Value::as_bool) == Some(true) {
            let error = output.get("error");
            let text = error.and_then(|e| e.get("message")).and_then(Value::as_str).map(str::to_owned);
            return Err(CliError::internal(format!("the tool failed: {}", text.unwrap_or_else(|| output.to_string()))));
        }
        cx.out.show(&called, |_, _| serde_json::to_string_pretty(&output).unwrap_or_default())
    }
}
