// The calls of upstream's Node connector and of its web page, made by hand: neither is a package that can be installed here. Each is one
// request as the client writes it (method, path, query, headers, body), and what the client reads from the answer.

import http from 'node:http';

const [url] = process.argv.slice(2);
const reached = [];
const missed = {};

async function call(name, what) {
  try {
    await what();
    reached.push(name);
  } catch (error) {
    missed[name] = `${error.message}`;
  }
}

function must(condition, seen) {
  if (!condition) throw new Error(`not as it should be: ${JSON.stringify(seen)}`);
}

function request(method, path, { token, body, origin, raw, account } = {}) {
  const headers = {};
  if (token) headers['X-Workspace-Token'] = token;
  if (account) headers.Authorization = `Bearer ${account}`;
  if (origin) headers.Origin = origin;
  const text = body === undefined ? undefined : JSON.stringify(body);
  if (text !== undefined) Object.assign(headers, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
  return new Promise((resolve, reject) => {
    const sent = http.request(url + path, { method, headers }, (answer) => {
      const pieces = [];
      answer.on('data', (piece) => pieces.push(piece));
      answer.on('end', () => {
        const whole = Buffer.concat(pieces);
        const body = raw ? whole : JSON.parse(whole.toString('utf-8') || 'null');
        resolve({ status: answer.statusCode, headers: answer.headers, body, data: raw ? whole : body?.data ?? body });
      });
    });
    sent.on('error', reject);
    if (text !== undefined) sent.write(text);
    sent.end();
  });
}

async function ok(method, path, options) {
  const answer = await request(method, path, options);
  if (answer.status >= 400) throw new Error(`${answer.status} ${answer.body?.message ?? ''}`);
  return answer.data;
}

async function refused(status, word, method, path, options) {
  const answer = await request(method, path, options);
  must(answer.status === status && answer.body.message.includes(word), answer.body);
}

const made = await ok('POST', '/v1/workspaces', { body: { name: 'Room', agent_name: 'nora', agent_type: 'claude' } });
const { workspaceId: ws, token } = made;
const channel = made.channel.name;
const query = (more) => `network=${ws}&${more}`;
const event = (type, source, target, payload, more = {}) =>
  ok('POST', '/v1/events', { token, body: { type, source, target, payload, metadata: {}, network: ws, ...more } });
const events = async (more) => (await ok('GET', `/v1/events?${query(more)}`, { token })).events;
const say = (source, content, more = {}) =>
  event('workspace.message.posted', source, `channel/${channel}`, { content, message_type: 'chat' }, more);

// The connector.
await call('createWorkspace again, with the same name', async () => {
  const again = await ok('POST', '/v1/workspaces', { body: { name: 'Room' } });
  must(again.workspaceId !== ws && again.slug === again.workspaceId && again.channel.name, again);
});
await call('resolveToken', async () => must((await ok('POST', '/v1/token/resolve', { body: { token } })).workspace_id === ws));
let session;
await call('joinNetwork', async () => {
  const joined = await ok('POST', '/v1/join', { body: { agent_name: 'nora', token, network: ws, agent_type: 'claude', server_host: 'h', working_dir: '/w' } });
  session = joined.session_id;
  must(session && joined.agent_name === 'nora', joined);
});
await call('heartbeat', async () => must((await ok('POST', '/v1/heartbeat', { token, body: { agent_name: 'nora', network: ws, session_id: session } })).status === 'online'));
await call('heartbeat of a session that was taken over', async () => {
  const joined = await ok('POST', '/v1/join', { body: { agent_name: 'nora', token, network: ws } });
  await refused(401, 'session_revoked', 'POST', '/v1/heartbeat', { token, body: { agent_name: 'nora', network: ws, session_id: session } });
  session = joined.session_id;
});
await call('sendEvent of a session that was taken over', () =>
  refused(401, 'session_revoked', 'POST', '/v1/events', { token, body: { type: 'workspace.message.posted', source: 'openagents:nora', target: `channel/${channel}`, payload: { content: 'x' }, metadata: { session_id: 'old' }, network: ws } }));
let asked;
await call('sendMessage of a person', async () => { asked = await say('human:user', 'what is up'); must(asked.id, asked); });
await call('sendMessage of the agent with its session', async () => must((await say('openagents:nora', 'all is well', { metadata: { session_id: session } })).id));
for (const kind of ['status', 'thinking', 'todos', 'tool_call'])
  await call(`sendMessage of type ${kind}`, () => event('workspace.message.posted', 'openagents:nora', `channel/${channel}`, { content: kind, message_type: kind }));
await call('sendMessage with attachments and a spec', () =>
  event('workspace.message.posted', 'openagents:nora', `channel/${channel}`, { content: 'see', message_type: 'chat', attachments: [{ fileId: 'f' }], spec: { root: 'x' }, spec_tool_call_id: 't' }));
await call('pollMessages', async () => must((await events(`channel=${channel}&type=workspace.message&limit=50`))[0].payload.content === 'what is up'));
await call('getRecentMessages', async () => {
  const newest = await events(`channel=${channel}&type=workspace.message&sort=desc&limit=30`);
  must(newest.at(-1).payload.content === 'what is up', newest);
});
await call('getHeadEventId', async () => must((await events('type=workspace.message.posted&sort=desc&limit=1')).length === 1));
let cursor;
await call('pollPending', async () => {
  const page = await ok('GET', `/v1/events?${query('type=workspace.&limit=500')}`, { token });
  const mine = page.events.filter((e) => e.source.startsWith('human:') && e.metadata.target_agents?.includes('nora'));
  must(mine.length === 1 && !('composing' in page) && page.next_cursor, page);
  cursor = page.events.at(-1).id;
});
await call('pollPending goes on', async () => must((await events(`type=workspace.&limit=500&after=${cursor}`)).length === 0));
await call('pollPending by target_agents', async () => {
  const page = await events('type=workspace.message&target_agents=nora');
  must(page.some((e) => e.payload.content === 'what is up') && page.some((e) => !e.metadata.target_agents), page);
});
await call('bootstrap', async () => {
  await event('workspace.agent.bootstrap', 'human:user', 'openagents:nora', { content: 'hello', channel });
  must((await events(`type=workspace.&limit=500&after=${cursor}`)).some((e) => e.type === 'workspace.agent.bootstrap'));
});
await call('pollToolResults', async () => {
  await event('workspace.tool_result', 'human:user', `channel/${channel}`, { tool_call_id: 't', result: 1 });
  must((await events('type=workspace.tool_result&limit=50')).length === 1);
});
await call('getWorkspaceMetadata', async () => must((await ok('GET', `/v1/workspaces/${ws}`, { token })).browserEnabled === false));
await call('getSession', async () => must((await ok('GET', `/v1/workspaces/${ws}/channels/${channel}`, { token })).status === 'active'));
await call('updateSession', async () => {
  await ok('PATCH', `/v1/workspaces/${ws}/channels/${channel}`, { token, body: { title: 'Auto', auto_title: true } });
});
await call('pollControl', async () => {
  await event('workspace.agent.control', 'human:user', 'openagents:nora', { action: 'stop' }, { visibility: 'direct' });
  const stop = await events('type=workspace.agent.control&target=openagents:nora&limit=10&sort=desc');
  must(stop.length === 1 && stop[0].payload.action === 'stop', stop);
});
await call('getAgents', async () => {
  const { agents } = await ok('GET', `/v1/discover?network=${ws}`, { token });
  const nora = agents.find((a) => a.address === 'openagents:nora');
  must(nora.role === 'master' && nora.status === 'online' && nora.enabled_skills === null && agents.every((a) => !a.address.startsWith('human:')), agents);
  must(nora.joined_at.endsWith('Z') && nora.last_heartbeat_at.endsWith('Z') && nora.working_dir === '/w', nora);
});
let file;
await call('uploadFile', async () => {
  file = await ok('POST', '/v1/files/base64', { token, body: { filename: 'a.txt', content_base64: 'aGVsbG8=', content_type: 'text/plain', network: ws, source: 'openagents:nora', channel_name: channel } });
  must(file.size === 5 && file.channel_name === channel && file.status === 'active', file);
});
await call('listFiles', async () => must((await ok('GET', `/v1/files?${query('limit=50&offset=0')}`, { token })).files[0].id === file.id));
await call('getFileInfo', async () => must((await ok('GET', `/v1/files/${file.id}/info`, { token })).filename === 'a.txt'));
await call('readFile', async () => must((await ok('GET', `/v1/files/${file.id}?network=${ws}`, { token, raw: true })).toString() === 'hello'));
await call('deleteFile', async () => must((await ok('DELETE', `/v1/files/${file.id}?network=${ws}`, { token })).status === 'deleted'));
for (const [name, path, key] of [
  ['browserListTabs', '/v1/browser/tabs', 'tabs'],
  ['browserListContexts', '/v1/browser/contexts', 'contexts'],
  ['getTodos', '/v1/todos', 'todos'],
  ['listTimers', '/v1/timers', 'timers'],
  ['listRoutines', '/v1/routines', 'routines'],
])
  await call(name, async () => must((await ok('GET', `${path}?network=${ws}`, { token }))[key].length === 0));
await call('what is not offered is refused in words', async () => {
  for (const [status, method, path] of [[405, 'POST', '/v1/browser/tabs'], [501, 'POST', '/v1/browser/tabs/t/click'], [405, 'PUT', '/v1/todos'], [405, 'POST', '/v1/timers'], [501, 'DELETE', '/v1/timers/t'], [405, 'POST', '/v1/routines'], [501, 'DELETE', '/v1/routines/r']])
    await refused(status, 'unsupported', method, path, { token, body: { network: ws } });
});

// The web page.
await call('page: composing', async () => {
  must((await ok('POST', '/v1/composing', { token, body: { network: ws, channel } })).status === 'ok');
  must((await ok('GET', `/v1/events?${query('type=workspace.')}`, { token })).composing === true);
  must(!('composing' in (await ok('GET', `/v1/events?${query('search=well')}`, { token }))));
});
let second;
await call('page: a new thread', async () => {
  const answer = await event('network.channel.create', 'human:user', 'core', { title: 'Plan', master: 'nora', participants: ['nora'] });
  second = answer.metadata.channel_name;
  must(second && answer.metadata.channel_id === second, answer);
});
await call('page: an agent joins and leaves a thread', async () => {
  await ok('POST', '/v1/join', { body: { agent_name: 'otto', token, network: ws } });
  await event('network.channel.join', 'human:user', `channel/${second}`, { agent_name: 'otto' });
  const { channels } = await ok('GET', `/v1/discover?network=${ws}`, { token });
  const thread = channels.find((c) => c.address === `channel/${second}`);
  must(thread.participants.includes('otto') && thread.master === 'nora' && typeof thread.created_at === 'number', thread);
  await event('network.channel.leave', 'human:user', `channel/${second}`, { channel: second, agent: 'otto' });
});
await call('page: a message that everybody may see', async () =>
  must((await say('human:user', 'for all', { visibility: 'network' })).visibility === 'public'));
await call('page: what people do', async () =>
  must((await event('workspace.user.presence', 'human:user', 'core', { state: 'here' })).visibility === 'public'));
await call('page: the mode button', async () =>
  must((await event('workspace.agent.control', 'human:user', 'openagents:nora', { action: 'set_mode', mode: 'plan' }, { visibility: 'direct' })).visibility === 'public'));
await call('page: the newest message of each thread', async () => {
  const { channels } = await ok('GET', `/v1/events/latest-per-channel?network=${ws}`, { token });
  must(channels[channel].payload.content === 'for all' && !channels[second], channels);
});
await call('page: conversations', async () => must(Array.isArray((await ok('GET', `/v1/events/conversations?network=${ws}`, { token })).conversations)));
await call('page: stars, renames and puts away a thread', async () => {
  const path = `/v1/workspaces/${ws}/channels/${second}`;
  must((await ok('PATCH', path, { token, body: { starred: true, title: 'Plans' } })).starred === true);
  must((await ok('PATCH', path, { token, body: { status: 'archived' } })).status === 'archived');
});
await call('page: an answer brings a thread back', async () => {
  await event('workspace.message.posted', 'openagents:nora', `channel/${second}`, { content: 'done' });
  must((await ok('GET', `/v1/workspaces/${ws}/channels/${second}`, { token })).status === 'active');
});
await call('page: a member\'s role, description and skills', async () => {
  const path = `/v1/workspaces/${ws}/members/otto`;
  await ok('PATCH', path, { token, body: { description: 'helps', enabled_skills: { review: true } } });
  await ok('PATCH', path, { token, body: { role: 'observer' } });
  const { agents } = await ok('GET', `/v1/discover?network=${ws}`, { token });
  const otto = agents.find((a) => a.address === 'openagents:otto');
  must(otto.role === 'observer' && otto.description === 'helps' && otto.enabled_skills.review, otto);
  const told = await ok('POST', `${path}/skills/status`, { token, body: { skill_id: 'review', state: 'installed' } });
  must(told.agentName === 'otto' && told.installedSkills[0] === 'review', told);
});
await call('page: removes an agent', async () =>
  must((await ok('POST', '/v1/remove', { token, body: { agent_name: 'otto', network: ws } })).status === 'removed'));
await call('page: beside an account that is none of ours', async () =>
  must((await ok('GET', `/v1/workspaces/${ws}`, { token, account: 'eyJ.of.others' })).workspaceId === ws));
await call('page: from another port of this machine', async () => {
  const answer = await request('GET', `/v1/events?network=${ws}`, { token, origin: 'http://localhost:3000' });
  must(answer.headers['access-control-allow-origin'] === 'http://localhost:3000', answer.headers);
  const foreign = await request('GET', `/v1/events?network=${ws}`, { token, origin: 'https://elsewhere.example' });
  must(foreign.status === 403, foreign.body);
});
for (const path of ['/v1/notifications', '/v1/knowledge'])
  await call(`page: ${path}`, () => ok('GET', `${path}?network=${ws}`, { token }));
await call('page: changes the workspace', async () =>
  must((await ok('PATCH', `/v1/workspaces/${ws}`, { token, body: { name: 'Room', settings: { theme: 'dark' } } })).settings.theme === 'dark'));
await call('page: rotates the token', async () => {
  const { token: next } = await ok('POST', `/v1/workspaces/${ws}/rotate-token`, { token });
  await refused(401, 'invalid_token', 'GET', `/v1/workspaces/${ws}`, { token });
  must((await ok('DELETE', `/v1/workspaces/${ws}`, { token: next })).status === 'deleted');
});

console.log(JSON.stringify({ reached: reached.length, total: reached.length + Object.keys(missed).length, missed }));
