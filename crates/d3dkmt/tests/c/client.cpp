// A C++ client: the header in C++, threads that wait for each other's fences, and an owner type.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>
#include "check.h"

namespace {

// A fence that is destroyed with its owner.
class Fence {
public:
    explicit Fence(D3DKMT_HANDLE device) : device_(device), made_(monitored_fence(device, 0, 0)) {}
    ~Fence() { destroy_fence(made_.hSyncObject); }
    Fence(const Fence &) = delete;
    Fence &operator=(const Fence &) = delete;

    void wait(UINT64 value) const { OK(wait_cpu(device_, made_.hSyncObject, value, 0)); }
    void signal(UINT64 value) const { OK(signal_cpu(device_, made_.hSyncObject, value)); }
    UINT64 value() const { return load(made_.Info.MonitoredFence.FenceValueCPUVirtualAddress); }

private:
    D3DKMT_HANDLE device_;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 made_;
};

} // namespace

int main() {
    constexpr int threads = 4;
    constexpr UINT64 rounds = 200;
    const D3DKMT_HANDLE adapter = open_adapter();
    const D3DKMT_HANDLE device = create_device(adapter);
    {
        // Each thread passes the turn to the next one.
        std::vector<std::unique_ptr<Fence>> fences;
        for (int i = 0; i < threads; i++) fences.push_back(std::make_unique<Fence>(device));
        std::atomic<UINT64> turns{0};
        std::vector<std::thread> running;
        for (int i = 0; i < threads; i++) {
            running.emplace_back([&, i] {
                for (UINT64 round = 1; round <= rounds; round++) {
                    fences[i]->wait(round);
                    CHECK(turns.fetch_add(1) == (round - 1) * threads + i);
                    const int next = (i + 1) % threads;
                    fences[next]->signal(next == 0 ? round + 1 : round);
                }
            });
        }
        fences[0]->signal(1);
        for (auto &thread : running) thread.join();
        CHECK(turns == threads * rounds);
        CHECK(fences[0]->value() == rounds + 1);
    }
    destroy_device(device);
    close_adapter(adapter);
    puts("client: all checks hold");
    return 0;
}
