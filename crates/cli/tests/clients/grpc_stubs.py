"""The package's own stubs of openagents.AgentService: all eight calls."""

import asyncio
import hashlib
import json
import time

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from openagents.proto import agent_service_pb2 as pb
from openagents.proto.agent_service_pb2_grpc import AgentServiceStub
from row import run


def packed(**payload):
    struct, whole = Struct(), Any()
    struct.update(payload)
    whole.Pack(struct)
    return whole


def unpacked(whole):
    struct = Struct()
    assert whole.Unpack(struct), whole.type_url
    return MessageToDict(struct)


async def main(row, host, port, token):
    word = hashlib.sha256(token.encode()).hexdigest()
    async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
        stub = AgentServiceStub(channel)
        secrets = {}

        def event(who, event_name, target="", **payload):
            return pb.Event(
                event_id=f"{who}-{time.time_ns()}", event_name=event_name, source_id=who, target_agent_id=target,
                payload=packed(**payload), timestamp=int(time.time()), visibility="network", secret=secrets.get(who, ""),
            )

        with row.call("Heartbeat before anything"):
            beat = await stub.Heartbeat(pb.HeartbeatRequest(agent_id="stub", timestamp=1))
            assert beat.success and beat.timestamp > 1_700_000_000
        with row.call("RegisterAgent"):
            for who in ("stub", "other"):
                made = await stub.RegisterAgent(
                    pb.RegisterAgentRequest(
                        agent_id=who, password_hash=word, capabilities=["write"], metadata={"description": "writes"}
                    )
                )
                assert made.success and made.secret, made
                secrets[who] = made.secret
            refused = await stub.RegisterAgent(pb.RegisterAgentRequest(agent_id="mallory", password_hash="0" * 64))
            assert not refused.success and "invalid_token" in refused.error_message and not refused.secret
        bearer = (("authorization", f"Bearer {secrets.get('stub', '')}"),)
        with row.call("SendEvent"):
            sent = await stub.SendEvent(event("stub", "agent.message", "other", content="hi", n=2))
            assert sent.success and sent.event_name == "agent.message", sent
            polled = await stub.SendEvent(event("other", "system.poll_messages", "system:system"))
            assert polled.data.type_url == "type.googleapis.com/openagents.EventResponseData"
            got = json.loads(polled.data.value)["messages"][-1]
            assert got["payload"] == {"content": "hi", "n": 2} and got["source_id"] == "stub", got
            spoofed = event("stub", "agent.message", "other", content="spoofed")
            spoofed.source_id = "other"
            assert not (await stub.SendEvent(spoofed)).success
            bare = event("stub", "agent.message", "other", content="bare")
            bare.secret = ""
            assert not (await stub.SendEvent(bare)).success
        with row.call("DiscoverAgents"):
            found = await stub.DiscoverAgents(pb.DiscoverAgentsRequest(required_capabilities=["write"]), metadata=bearer)
            assert {a.agent_id for a in found.agents} == {"stub", "other"}, found
            found = await stub.DiscoverAgents(pb.DiscoverAgentsRequest(required_capabilities=["fly"]), metadata=bearer)
            assert not found.agents
            try:
                await stub.DiscoverAgents(pb.DiscoverAgentsRequest())
                raise AssertionError("a stranger saw who is there")
            except grpc.aio.AioRpcError as error:
                assert error.code() == grpc.StatusCode.UNAUTHENTICATED
        with row.call("GetAgentInfo"):
            info = await stub.GetAgentInfo(pb.GetAgentInfoRequest(agent_id="other"), metadata=bearer)
            assert info.found and info.agent.address == "agent:other" and info.agent.metadata["description"] == "writes"
            assert not (await stub.GetAgentInfo(pb.GetAgentInfoRequest(agent_id="nobody"), metadata=bearer)).found
        with row.call("GetNetworkInfo"):
            network = await stub.GetNetworkInfo(pb.NetworkInfoRequest())
            assert network.network_id and network.is_running and network.port == int(port) and not network.agents
            assert len((await stub.GetNetworkInfo(pb.NetworkInfoRequest(), metadata=bearer)).agents) >= 2
        with row.call("StreamEvents"):
            stream = stub.StreamEvents()
            await stream.write(event("other", "system.heartbeat"))
            # Mail that waited may come before the answer.
            while (first := await asyncio.wait_for(stream.read(), 20)).event_name == "agent.message":
                pass
            assert first.event_name == "system.event_response" and unpacked(first.payload)["success"], first
            await stub.SendEvent(event("stub", "agent.message", "other", content="streamed"))
            while (got := await asyncio.wait_for(stream.read(), 20)).event_name != "agent.message":
                pass
            while unpacked(got.payload)["content"] != "streamed":
                got = await asyncio.wait_for(stream.read(), 20)
            await stream.write(event("other", "system.ack_events", ids=[got.event_id]))
            while (answer := await asyncio.wait_for(stream.read(), 20)).event_name == "agent.message":
                pass
            assert unpacked(answer.payload)["success"], answer
            stream.cancel()
        with row.call("UnregisterAgent"):
            assert not (await stub.UnregisterAgent(pb.UnregisterAgentRequest(agent_id="stub", secret="wrong"))).success
            gone = await stub.UnregisterAgent(pb.UnregisterAgentRequest(agent_id="stub", secret=secrets["stub"]))
            assert gone.success, gone
            assert not (await stub.SendEvent(event("stub", "agent.message", "other", content="late"))).success


run(main)
