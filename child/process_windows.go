package child

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// process is the system's side of a child: a process and the job object that
// holds it and all that it starts.
type process struct {
	pid int
	p   *os.Process
	job windows.Handle
}

func lockThread() (unlock func()) { return func() {} }

func startProcess(file string, argv []string, attr *os.ProcAttr) (*process, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		windows.CloseHandle(job)
		return nil, err
	}
	// Suspended, so that it starts nothing before it is in the job.
	attr.Sys = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
	p, err := os.StartProcess(file, argv, attr)
	if err != nil {
		windows.CloseHandle(job)
		return nil, err
	}
	pr := &process{pid: p.Pid, p: p, job: job}
	if err := pr.release(); err != nil {
		p.Kill()
		p.Wait()
		windows.CloseHandle(job)
		return nil, err
	}
	return pr, nil
}

// release puts the suspended process into the job and lets it run.
func (p *process) release() error {
	var err error
	if herr := p.p.WithHandle(func(h uintptr) { err = windows.AssignProcessToJobObject(p.job, windows.Handle(h)) }); herr != nil {
		return herr
	}
	if err != nil {
		return err
	}
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(snap)
	var e windows.ThreadEntry32
	e.Size = uint32(unsafe.Sizeof(e))
	for err = windows.Thread32First(snap, &e); err == nil; err = windows.Thread32Next(snap, &e) {
		if e.OwnerProcessID != uint32(p.pid) {
			continue
		}
		th, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, e.ThreadID)
		if err != nil {
			return err
		}
		_, err = windows.ResumeThread(th)
		windows.CloseHandle(th)
		return err
	}
	return errors.New("child: the new process has no thread")
}

func (p *process) await() exit {
	st, err := p.p.Wait()
	if err != nil {
		return exit{}
	}
	code := st.ExitCode()
	return exit{code: &code}
}

// reap closes the job, which ends what is left in it.
func (p *process) reap() { windows.CloseHandle(p.job) }

// groupAlive reports whether anything in the job lives.
func (p *process) groupAlive() bool {
	var acct struct {
		TotalUserTime, TotalKernelTime, ThisPeriodUserTime, ThisPeriodKernelTime int64
		PageFaults, Processes, ActiveProcesses, TerminatedProcesses              uint32
	}
	const basicAccounting = 1
	err := windows.QueryInformationJobObject(p.job, basicAccounting,
		uintptr(unsafe.Pointer(&acct)), uint32(unsafe.Sizeof(acct)), nil)
	return err == nil && acct.ActiveProcesses > 0
}

// sweep does nothing: closing the job ends what is in it.
func (p *process) sweep() {}

func (p *process) signal(sig os.Signal) error {
	switch sig {
	case os.Kill:
		return windows.TerminateJobObject(p.job, 1)
	case os.Interrupt:
		return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.pid))
	}
	return windows.ERROR_NOT_SUPPORTED
}

// terminate sends CTRL_BREAK, the nearest thing to SIGTERM. It reaches only
// processes that share our console.
func (p *process) terminate() { p.signal(os.Interrupt) }
func (p *process) kill()      { p.signal(os.Kill) }

func (p *process) descendants(string) ([]Process, error) { return nil, nil }

func setPipeSize(*os.File, int) {}
