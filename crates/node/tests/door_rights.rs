//! Every operation of the door, tried by an outsider, an observer, a member and the operator. What each is answered is the
//! table of `docs/rights.md`, by kind of operation.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use rialto_model::network::Preset;
use rialto_model::payload::NewChannel;
use rialto_model::work::WorkOrder;
use rialto_model::{ErrorCode, Fault, Role};
use rialto_node::identity::Secret;
use rialto_node::{
    AdminOp, ArtifactChunking, Caller, CreateNetwork, Credentials, DeadLetters, Draft, FileFilter, Filter, Hello,
    InboxOptions, MadeArtifact, NetworkRef, Node, Query, ResourceFilter, RosterFilter, Session, ToolCallOptions,
    UnitFilter, View, Wishes, WorkNews,
};
use rialto_store::MemoryStore;
use serde_json::value::{RawValue, to_raw_value};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

type Answer<'s> = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send + 's>>;
/// An operation, asked by somebody about what there is.
type Operation = for<'s> fn(&'s Session, &'s Given) -> Answer<'s>;

/// What operations are about.
struct Given {
    /// A unit that `agent:owner` asked `agent:member` for.
    unit: String,
    /// An event that everybody in `channel/general` may read.
    event: String,
}

/// What an outsider, an observer, a member and the operator hear: a code, or nothing.
type Heard = [Option<ErrorCode>; 4];

const NOBODY: Option<ErrorCode> = Some(ErrorCode::Unauthenticated);
/// The profile of a listed network; and a position, which says nothing, since reading on from it is refused.
const PUBLIC: Heard = [None; 4];
const READ: Heard = [NOBODY, None, None, None];
const BE_A_MEMBER: Heard = [NOBODY, None, None, Some(ErrorCode::NotAMember)];
const SEND: Heard = [NOBODY, Some(ErrorCode::ObserverReadOnly), None, Some(ErrorCode::NotAMember)];
const MANAGE: Heard = [NOBODY, Some(ErrorCode::Forbidden), Some(ErrorCode::Forbidden), None];
/// The mod that counts is not loaded here, which only those are told who may read.
const NO_ANALYTICS: Heard =
    [NOBODY, Some(ErrorCode::ModNotFound), Some(ErrorCode::ModNotFound), Some(ErrorCode::ModNotFound)];
/// The unit is the member's: for anybody else that may send it is not there.
const ITS_WORK: Heard = [NOBODY, Some(ErrorCode::UnknownTarget), None, None];

macro_rules! operations {
    ($($name:literal $kind:expr => |$session:ident, $given:ident| $what:expr;)*) => {
        const OPERATIONS: &[(&str, Heard, Operation)] = &[$((
            $name,
            $kind,
            |$session, $given| Box::pin(async move {
                let _ = $given;
                $what.await.map(drop)
            }),
        )),*];
    };
}

fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

operations! {
    "profile" PUBLIC => |s, _g| s.profile();
    "threads" READ => |s, _g| s.threads(None, None, None);
    "channels" READ => |s, _g| s.channels(None, 10);
    "channel" READ => |s, _g| s.channel("general");
    "latest_per_channel" READ => |s, _g| s.latest_per_channel(None);
    "conversations" BE_A_MEMBER => |s, _g| s.conversations();
    "discover" READ => |s, _g| s.discover(RosterFilter::default());
    "members" READ => |s, _g| s.members();
    "workspace" READ => |s, _g| s.workspace(true);
    "analytics" NO_ANALYTICS => |s, _g| s.analytics();
    "query" READ => |s, _g| s.query(log());
    "page" READ => |s, _g| s.page(View::Log, filter(), None, 10);
    "cursor" PUBLIC => |s, g| s.cursor(&g.event, false);
    "explain" READ => |s, g| s.explain(&g.event);
    "resources" READ => |s, _g| s.resources(ResourceFilter::default());
    "resource" READ => |s, _g| s.resource("resource/context/skill-md", None);
    "files" READ => |s, _g| s.files(FileFilter::default());
    "rooms" READ => |s, _g| s.rooms(None, None);
    "inbox" BE_A_MEMBER => |s, _g| s.inbox(from_now());
    "me" BE_A_MEMBER => |s, _g| s.me();
    "change_me" BE_A_MEMBER => |s, _g| s.change_me(Wishes::default());
    "heartbeat" BE_A_MEMBER => |s, _g| s.heartbeat();
    "ack" BE_A_MEMBER => |s, g| s.ack(vec![g.event.clone()], None);
    "ack_seqs" BE_A_MEMBER => |s, _g| s.ack_seqs(vec![1]);
    "works" READ => |s, _g| s.works(UnitFilter::default(), None);
    "work" ITS_WORK => |s, g| s.work(&g.unit);
    "work_page" ITS_WORK => |s, g| s.work_page(&g.unit, 0, 10);
    "watch_work" ITS_WORK => |s, g| s.watch_work(&g.unit);
    "send" SEND => |s, _g| s.send(message());
    "open_work" SEND => |s, _g| s.open_work(order());
    "update_work" SEND => |s, g| s.update_work(&g.unit, news());
    "take_work" SEND => |s, g| s.take_work(&g.unit);
    "add_artifact" SEND => |s, g| s.add_artifact(&g.unit, artifact(), ArtifactChunking::default());
    "call_tool" SEND => |s, _g| s.call_tool("resource/tool/slow", input(), quick());
    "open_room" BE_A_MEMBER => |s, _g| s.open_room("agent:owner".into(), None);
    "stage" SEND => |s, _g| s.stage(None);
    "begin_file" SEND => |s, _g| s.begin_file();
    "upload" SEND => |s, _g| s.upload("resource/file/new", None);
    "dead_letters" MANAGE => |s, _g| s.dead_letters(letters());
    "network_view" MANAGE => |s, _g| s.network_view();
    "tokens" MANAGE => |s, _g| s.tokens();
    "groups" MANAGE => |s, _g| s.groups();
    "mods" MANAGE => |s, _g| s.mods();
    "dead_letter_ledger" MANAGE => |s, _g| s.dead_letter_ledger();
    "member_sessions" MANAGE => |s, _g| s.member_sessions();
    "audit" MANAGE => |s, _g| s.audit(0, None);
    "act: role" MANAGE => |s, _g| s.act(None, AdminOp::Role("agent:owner".into(), Role::Member));
    "act: channel" MANAGE => |s, _g| s.act(None, AdminOp::OpenSession(NewChannel::default(), None));
}

/// Values that live as long as the program: operations borrow them.
macro_rules! kept {
    ($name:ident: $type:ty = $value:expr) => {
        fn $name() -> &'static $type {
            static KEPT: std::sync::OnceLock<$type> = std::sync::OnceLock::new();
            KEPT.get_or_init(|| $value)
        }
    };
}
kept!(log: Query = Query { view: Some(View::Log), ..Query::default() });
kept!(filter: Filter = Filter::default());
kept!(from_now: InboxOptions = InboxOptions::default());
kept!(message: Draft = Draft::message("channel/general", "hello").unwrap());
kept!(order: WorkOrder =
    WorkOrder { target: "agent:owner".into(), content: "more".into(), ..WorkOrder::default() });
kept!(news: WorkNews = WorkNews { progress: Some(json("1")), ..WorkNews::default() });
kept!(artifact: MadeArtifact =
    MadeArtifact { id: "a".into(), parts: Some(json(r#"[{"text":"x"}]"#)), ..MadeArtifact::default() });
kept!(input: Box<RawValue> = json("{}"));
kept!(letters: DeadLetters = DeadLetters::default());

fn quick() -> ToolCallOptions {
    ToolCallOptions { deadline: Some(std::time::Duration::from_millis(50)), wait_for_owner: true }
}

async fn opened(node: &Node, token: &Secret, hello: &Hello) -> Session {
    let credentials = Credentials { bearer: Some(token.clone()), ..Credentials::default() };
    node.open_session(&NetworkRef::ByCredential, &credentials, hello, None).await.unwrap()
}

#[tokio::test]
async fn every_operation_answers_each_kind_of_caller_as_the_table_says() {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    node.refuse_strangers();
    let (network, token) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let token = token.unwrap();
    let owner = opened(&node, &token, &Hello::agent("owner")).await;
    let member = opened(&node, &token, &Hello::agent("member")).await;
    let observer = Hello { role: Some(Role::Observer), ..Hello::agent("observer") };
    let observer = opened(&node, &token, &observer).await;
    let outsider = network.session(&Arc::new(Caller::default()));
    let operator = network.session(&Arc::new(Caller { operator: true, ..Caller::default() }));
    let tool = to_raw_value(&serde_json::json!({ "address": "resource/tool/slow" })).unwrap();
    owner.send(&Draft::new("network.resource.register", "core", &tool).unwrap()).await.unwrap();
    let event = owner.send(&Draft::message("channel/general", "hello").unwrap()).await.unwrap().id;
    let asked = WorkOrder { target: "agent:member".into(), content: "do it".into(), ..WorkOrder::default() };
    let given = Given { unit: owner.open_work(&asked).await.unwrap().id, event };

    let mut wrong = Vec::new();
    for (name, expected, operation) in OPERATIONS {
        let callers = [("outsider", &outsider), ("observer", &observer), ("member", &member), ("operator", &operator)];
        for ((who, session), expected) in callers.into_iter().zip(expected) {
            let heard = operation(session, &given).await.err();
            // Nobody answers this tool: whoever may call it learns that.
            let heard = heard.map(|fault| fault.code).filter(|code| *code != ErrorCode::Timeout);
            if heard != *expected {
                wrong.push(format!("{name}: the {who} heard {heard:?} instead of {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    node.stop().await;
}
