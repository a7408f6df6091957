// Stations that upload through one access point, in ns-3: the settings of data/ns3_3.48.csv
// (crates/yuzuri-eval), to find the effect of each constant of ns-3. scripts/compare-ns3.sh builds
// and runs it.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace {

struct Counts {
    uint64_t timeouts = 0;
    uint64_t recoveries = 0;
    uint64_t segments = 0;
    uint64_t resent = 0;
    double rtt_ms = 0;
    uint64_t rtts = 0;
    std::map<uint32_t, SequenceNumber32> sent_up_to;
};

Counts counts;

void
OnState(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t state)
{
    counts.timeouts += state == TcpSocketState::CA_LOSS;
    counts.recoveries += state == TcpSocketState::CA_RECOVERY;
}

void
OnRtt(Time, Time rtt)
{
    counts.rtt_ms += rtt.GetSeconds() * 1e3;
    counts.rtts++;
}

void
OnSegment(uint32_t node, Ptr<const Packet> payload, const TcpHeader& header, Ptr<const TcpSocketBase>)
{
    if (payload->GetSize() == 0)
    {
        return;
    }
    counts.segments++;
    auto known = counts.sent_up_to.find(node);
    if (known != counts.sent_up_to.end() && header.GetSequenceNumber() < known->second)
    {
        counts.resent++;
        return;
    }
    counts.sent_up_to[node] = header.GetSequenceNumber() + payload->GetSize();
}

void
Observe(uint32_t node)
{
    const auto sockets = "/NodeList/" + std::to_string(node) + "/$ns3::TcpL4Protocol/SocketList/*/";
    Config::ConnectWithoutContext(sockets + "CongState", MakeCallback(&OnState));
    Config::ConnectWithoutContext(sockets + "LastRTT", MakeCallback(&OnRtt));
    Config::ConnectWithoutContext(sockets + "Tx", MakeBoundCallback(&OnSegment, node));
}

void
SetQueue(Ptr<NetDevice> device, uint32_t packets)
{
    auto mac = DynamicCast<WifiNetDevice>(device)->GetMac();
    const QueueSize size(QueueSizeUnit::PACKETS, packets);
    if (!mac->GetQosSupported())
    {
        mac->GetTxop()->GetWifiMacQueue()->SetMaxSize(size);
        return;
    }
    for (auto access : {AC_BE, AC_BK, AC_VI, AC_VO})
    {
        mac->GetTxopQueue(access)->SetMaxSize(size);
    }
}

} // namespace

int
main(int argc, char** argv)
{
    std::string standard = "n";
    uint32_t stations = 16;
    uint32_t rtt_ms = 64;
    uint32_t wire_mbps = 100;
    uint32_t wire_packets = 50;
    uint32_t ap_packets = 400;
    uint32_t duration_s = 20;
    uint32_t seed = 1;
    double min_rto_s = 1;
    CommandLine words;
    words.AddValue("standard", "n or ac", standard);
    words.AddValue("stations", "how many upload", stations);
    words.AddValue("rtt_ms", "of the wire", rtt_ms);
    words.AddValue("wire_mbps", "rate of the wire", wire_mbps);
    words.AddValue("wire_packets", "queue of the wire", wire_packets);
    words.AddValue("ap_packets", "queue of the access point", ap_packets);
    words.AddValue("duration_s", "how long", duration_s);
    words.AddValue("seed", "of the random numbers", seed);
    words.AddValue("min_rto_s", "ns3::TcpSocketBase::MinRto", min_rto_s);
    words.Parse(argc, argv);

    RngSeedManager::SetRun(seed);
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(32 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(32 << 20));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(min_rto_s)));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
    // The default of 500 ms would drop packets in a long queue.
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(100)));

    NodeContainer clients;
    clients.Create(stations);
    NodeContainer ap;
    ap.Create(1);
    NodeContainer server;
    server.Create(1);

    const bool ac = standard == "ac";
    YansWifiChannelHelper channel = YansWifiChannelHelper::Default();
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    phy.Set("ChannelSettings", StringValue(ac ? "{0,80,BAND_5GHZ,0}" : "{0,20,BAND_5GHZ,0}"));
    WifiHelper wifi;
    wifi.SetStandard(ac ? WIFI_STANDARD_80211ac : WIFI_STANDARD_80211n);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode", StringValue(ac ? "VhtMcs9" : "HtMcs7"),
                                 "ControlMode", StringValue("OfdmRate24Mbps"));
    WifiMacHelper mac;
    const Ssid ssid("cell");
    mac.SetType("ns3::StaWifiMac", "Ssid", SsidValue(ssid), "ActiveProbing", BooleanValue(false));
    NetDeviceContainer wireless = wifi.Install(phy, mac, clients);
    mac.SetType("ns3::ApWifiMac", "Ssid", SsidValue(ssid));
    NetDeviceContainer access = wifi.Install(phy, mac, ap);
    for (uint32_t n = 0; n < stations; n++)
    {
        SetQueue(wireless.Get(n), 1000);
    }
    SetQueue(access.Get(0), ap_packets);

    MobilityHelper mobility;
    auto places = CreateObject<ListPositionAllocator>();
    for (uint32_t n = 0; n < stations; n++)
    {
        const double angle = 2 * M_PI * n / stations;
        places->Add(Vector(std::cos(angle), std::sin(angle), 0));
    }
    mobility.SetPositionAllocator(places);
    mobility.Install(clients);
    mobility.SetPositionAllocator(CreateObject<ListPositionAllocator>());
    auto middle = CreateObject<ListPositionAllocator>();
    middle->Add(Vector(0, 0, 0));
    mobility.SetPositionAllocator(middle);
    mobility.Install(ap);

    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", DataRateValue(DataRate(wire_mbps * 1000000ULL)));
    wire.SetChannelAttribute("Delay", TimeValue(MicroSeconds(rtt_ms * 500)));
    wire.SetQueue("ns3::DropTailQueue",
                  "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, wire_packets)));
    NetDeviceContainer wired = wire.Install(ap.Get(0), server.Get(0));

    InternetStackHelper stack;
    stack.Install(clients);
    stack.Install(ap);
    stack.Install(server);
    access.Add(wireless);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.0.0");
    addresses.Assign(access);
    addresses.SetBase("10.1.0.0", "255.255.255.0");
    const auto server_address = addresses.Assign(wired).GetAddress(1);
    // Use only the devices' own queues, whose lengths are set.
    TrafficControlHelper control;
    control.Uninstall(access);
    control.Uninstall(wired);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t n = 0; n < stations; n++)
    {
        const uint16_t port = 5000 + n;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(server.Get(0)).Get(0)));
        BulkSendHelper upload("ns3::TcpSocketFactory", InetSocketAddress(server_address, port));
        const Time start = Seconds(1) + MilliSeconds(10 * n);
        upload.Install(clients.Get(n)).Start(start);
        // The application creates its socket when it starts.
        Simulator::Schedule(start + MilliSeconds(1), &Observe, clients.Get(n)->GetId());
    }
    Simulator::Stop(Seconds(1 + duration_s));
    Simulator::Run();

    double total = 0;
    double squares = 0;
    for (const auto& sink : sinks)
    {
        const double mbps = sink->GetTotalRx() * 8e-6 / duration_s;
        total += mbps;
        squares += mbps * mbps;
    }
    std::printf("%.2f %.3f %.0f %lu %lu %.2f\n",
                total,
                total * total / stations / squares,
                counts.rtt_ms / counts.rtts,
                counts.timeouts,
                counts.recoveries,
                100.0 * counts.resent / counts.segments);
    Simulator::Destroy();
    return 0;
}
