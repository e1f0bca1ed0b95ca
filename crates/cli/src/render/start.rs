//! The start screen of `rialto up`: what was started, and what to paste to use it.

use std::path::Path;

/// What the screen shows of the network token.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TokenLine<'a> {
    /// Made just now: shown this once.
    Fresh(&'a str),
    /// Chosen by the operator with `--token`: known to them, not repeated.
    Given,
    /// Made at an earlier start.
    Kept,
    /// Nobody needs one.
    Open,
}

/// Everything the screen says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) version: &'a str,
    pub(crate) url: &'a str,
    pub(crate) network_id: &'a str,
    pub(crate) network_name: &'a str,
    pub(crate) data: &'a Path,
    pub(crate) token: TokenLine<'a>,
    /// Opens the browser as the operator, once.
    pub(crate) browser_link: Option<&'a str>,
    /// The listener is reached from outside and does not encrypt.
    pub(crate) plain: bool,
}

/// The screen as text.
pub(crate) fn screen(start: &Start<'_>) -> String {
    let Start { version, url, network_id, network_name, .. } = start;
    let data = start.data.display();
    let mut out = format!("rialto {version} is up\n\n");
    out.push_str(&format!("  url      {url}\n"));
    out.push_str(&format!("  network  {network_name} ({network_id})\n"));
    out.push_str(&format!("  data     {data}\n"));
    match start.token {
        TokenLine::Fresh(token) => {
            out.push_str(&format!("  token    {token}\n"));
            out.push_str("           shown this once; `rialto network token new` makes another\n");
        }
        TokenLine::Given => out.push_str("  token    the one you gave; `rialto network token new` makes another\n"),
        TokenLine::Kept => {
            out.push_str("  token    shown at the first start; `rialto network token new` makes another\n")
        }
        TokenLine::Open => out.push_str("  token    none needed: this network is open\n"),
    }
    if let Some(link) = start.browser_link {
        out.push_str(&format!("  browser  {link}\n           works once, and makes you the operator\n"));
    }
    if start.plain {
        out.push_str("  WARNING  others reach this node without TLS: tokens and mail can be read on the way;\n");
        out.push_str("           give --tls-cert and --tls-key, or let a proxy have TLS and listen on loopback\n");
    }
    out.push_str(&paste(start));
    out.push_str("\nCtrl-C stops the node; nothing acknowledged is lost.\n");
    out
}

fn paste(start: &Start<'_>) -> String {
    let url = start.url;
    let token = match start.token {
        TokenLine::Fresh(token) => format!("  export RIALTO_TOKEN={token}\n"),
        TokenLine::Given | TokenLine::Kept => "  export RIALTO_TOKEN=…\n".to_owned(),
        TokenLine::Open => String::new(),
    };
    let (curl_token, python_token) = match start.token {
        TokenLine::Open => ("", "None"),
        TokenLine::Fresh(_) | TokenLine::Given | TokenLine::Kept => {
            (" -H \"Authorization: Bearer $RIALTO_TOKEN\"", "os.environ[\"RIALTO_TOKEN\"]")
        }
    };
    format!(
        r#"
From this machine:

  rialto tail channel/general
  rialto send channel/general "hello"

As an agent, from anywhere that reaches this node:

  export RIALTO_URL={url}
{token}  rialto inbox --as helper --wait 60

With curl:

  S=$(curl -s {url}/v1/join{curl_token} \
    -H 'Content-Type: application/json' -d '{{"agent_id":"agent:curl"}}' | sed 's/.*"session_id":"\([^"]*\)".*/\1/')
  curl -s {url}/v1/events -H "Authorization: Bearer $S" -H 'Content-Type: application/json' \
    -d '{{"type":"workspace.message.posted","target":"channel/general","payload":{{"content":"hello from curl"}}}}'

With Python:

  import json, os, urllib.request
  def call(path, body, bearer):
      head = {{"Content-Type": "application/json"}} | ({{"Authorization": "Bearer " + bearer}} if bearer else {{}})
      ask = urllib.request.Request("{url}/v1/" + path, json.dumps(body).encode(), head)
      return json.load(urllib.request.urlopen(ask))["data"]
  me = call("join", {{"agent_id": "agent:python"}}, {python_token})
  call("events", {{"type": "workspace.message.posted", "target": "channel/general",
                  "payload": {{"content": "hello from Python"}}}}, me["session_id"])
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;

    fn start(token: TokenLine<'_>) -> Start<'_> {
        Start {
            version: "0.1.0",
            url: "http://127.0.0.1:8700",
            network_id: "a1b2c3d4",
            network_name: "main",
            data: Path::new("/home/ana/.local/share/rialto"),
            token,
            browser_link: None,
            plain: false,
        }
    }

    #[test]
    fn the_first_start() {
        let link = Some("http://127.0.0.1:8700/#once=Zm9v");
        let text = screen(&Start { browser_link: link, ..start(TokenLine::Fresh("dG9rZW4tb2YtMzItYnl0ZXM")) });
        expect_file!["start_first.txt"].assert_eq(&text);
    }

    #[test]
    fn a_later_start_shows_no_secret_and_says_how_to_get_one() {
        let text = screen(&start(TokenLine::Kept));
        assert!(text.contains("shown at the first start; `rialto network token new` makes another"));
        assert!(text.contains("export RIALTO_TOKEN=…"));
        assert!(screen(&start(TokenLine::Given)).contains("the one you gave"));
    }

    #[test]
    fn a_plain_listener_beyond_loopback_is_warned_of() {
        assert!(!screen(&start(TokenLine::Kept)).contains("WARNING"));
        assert!(screen(&Start { plain: true, ..start(TokenLine::Kept) }).contains("WARNING  others reach this node"));
    }

    #[test]
    fn an_open_network_needs_no_token_anywhere() {
        let text = screen(&start(TokenLine::Open));
        assert!(!text.contains("RIALTO_TOKEN"));
    }
}
