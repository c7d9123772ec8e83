/** Everything that can happen to the state. */
import type {
  Tolerance,
  Caller,
  CaseSet,
  ExperimentSummary,
  GatePlan,
  GetLeaderboardResponse,
  Host,
  InstructionListing,
  Job,
  JobEvent,
  ListChampionsResponse,
} from '@flashcore/shared/contract';
import type { ListedProblem } from '../present/sections/problem.ts';
import type { ListedKernel } from './listed-kernel.ts';
import type {
  ComparePage,
  Connection,
  DistributionPlot,
  FilteredList,
  HistorySort,
  LineSort,
  JobList,
  KernelList,
  KernelSort,
  Notice,
  Overlay,
  ShownRunner,
  StartedForm,
  UiState,
  ViewId,
} from './app-state.ts';
import type { SavedView } from './saved-view.ts';

export type Action =
  // Actions that the runner causes.
  | { type: 'job-event'; event: JobEvent }
  // The runner no longer has the events before number `first`.
  | { type: 'events-expired'; job: string; first: bigint }
  | { type: 'connection'; connection: Connection }
  // The runner answered and described itself.
  | { type: 'runner'; runner: ShownRunner }
  | {
      type: 'host';
      host: Host;
      caller?: Caller | undefined;
      plans?: readonly GatePlan[];
      caseSets?: readonly CaseSet[];
      tolerances?: readonly Tolerance[];
    }
  | { type: 'champions'; champions: ListChampionsResponse }
  | { type: 'jobs'; jobs: readonly Job[] }
  | { type: 'experiments'; experiments: readonly ExperimentSummary[] }
  | { type: 'kernels'; kernels: readonly ListedKernel[] }
  | { type: 'problems'; problems: readonly ListedProblem[] }
  // `isVersion`: the job runs another version of the shown kernel, so the cursors keep their places.
  | { type: 'attach'; job: string; isVersion?: boolean }
  | { type: 'watching'; folder: string | undefined }
  // The watched folder was saved; a job for the new version follows.
  | { type: 'saved' }
  // `isRest`: this job runs the rest of a version whose smallest case has already run.
  | { type: 'version-started'; job: string; isRest?: boolean }
  | { type: 'samples'; sha256: string; samples: readonly number[] }
  | { type: 'source'; sha256: string; text: string }
  | { type: 'listing'; sha256: string; listing: InstructionListing | 'unreadable' }
  | { type: 'leaderboard'; leaderboard: GetLeaderboardResponse }
  | ({ type: 'notice' } & Omit<Notice, 'time'>)
  | { type: 'key' }
  // The command line that is equivalent to a key that was pressed.
  | { type: 'command'; text: string }
  | { type: 'tick'; now: number }
  // Actions of the user.
  | { type: 'restore'; view: SavedView }
  | { type: 'resize'; columns: number; rows: number }
  | { type: 'show'; view: ViewId }
  | { type: 'next-view'; step: 1 | -1 }
  | { type: 'zoom' }
  // Gives the cursor to the rail of jobs, or back to the view.
  | { type: 'rail'; on: boolean }
  // `limit`: the last position in a view that scrolls but has no cursor.
  | { type: 'move'; by: number; limit?: number | undefined }
  | { type: 'move-to'; end: 'first' | 'last'; limit?: number | undefined }
  // Pages through the details of an item, which are below or next to the list.
  | { type: 'detail'; by: 1 | -1 }
  | { type: 'next-variant' }
  /** The next finding of the variant shown. */
  | { type: 'next-finding' }
  | { type: 'line-order'; sort: LineSort }
  | { type: 'show-listing'; listing: UiState['listing'] }
  | { type: 'listed-place'; place: UiState['listedPlace'] }
  | { type: 'mark'; jobs: readonly string[] }
  | { type: 'pin'; job: string | undefined }
  | { type: 'compare'; on: boolean }
  | { type: 'history-order'; sort: HistorySort }
  | { type: 'kernel-order'; sort: KernelSort }
  | { type: 'kernel-chosen'; /** As kernelKey() makes it. */ key: string }
  | { type: 'list-filter'; list: FilteredList; text: string }
  | { type: 'job-list'; list: JobList }
  | { type: 'kernel-list'; list: KernelList }
  | { type: 'compare-page'; page: ComparePage }
  | { type: 'distribution'; plot: DistributionPlot }
  | { type: 'map-cursor'; cursor: UiState['mapCursor'] }
  | { type: 'map-head'; head: number | undefined }
  | { type: 'job-opened'; job: string }
  | { type: 'form-run'; form: StartedForm }
  /** The form that started a job. */
  | { type: 'form-of-job'; job: string; form: StartedForm }
  | { type: 'toggle'; what: 'faulty' | 'mouse' | 'wrap' | 'filter' }
  | { type: 'overlay'; overlay: Overlay | undefined }
  | { type: 'search'; query: string }
  | { type: 'log-sideways'; by: number }
  // `top`: number of the first line shown when not following.
  | { type: 'log-position'; follow: boolean; top: number; isHit?: boolean };
